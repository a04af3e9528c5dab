# Becomes a freshly booted systemd that shares nothing but the kernel with the machine: run by `unshare` as process 1
# of namespaces of its own (see booted.rs), whose mounts vanish with it. The machine's root is the read-only
# lower layer of an overlay; what is in $1 lies over it, and all that is written stays in memory.
# usage: boot.sh FILES
set -eu
files=$1
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
cp -a "$files/." /mnt/upper
root=/mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t bpf bpf "$root/sys/fs/bpf"
mount --rbind /dev "$root/dev"
for dir in dev/shm tmp run var/tmp; do mount -t tmpfs tmpfs "$root/$dir"; done
ip link set lo up
# Of the machine's own services, devices and timers none is to start.
mkdir -p "$root/etc/systemd/system"
printf '[Unit]\nDescription=Only what the test starts\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n' \
    >"$root/etc/systemd/system/xvs-test.target"
for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udev-trigger.service \
    systemd-sysctl.service systemd-binfmt.service systemd-modules-load.service systemd-hwdb-update.service \
    systemd-tmpfiles-setup-dev.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount; do
    ln -sfn /dev/null "$root/etc/systemd/system/$unit"
done
: >"$root/etc/fstab"
cd "$root"
mkdir oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=xvs-test.target --log-target=journal --show-status=no
