//! The XDP program on real veth pairs: attaching, refusing, replacing, vanishing, passing to the stack.
//! Needs root; everything happens in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use xvs_netdev_afxdp::{Attach, AttachMode, Device, Error, RedirectProgram};
use xvs_tests::ns::Netns;
use xvs_tests::ping::Ping;
use xvs_tests::scratch::Scratch;
use xvs_tests::wait_until;

/// Two namespaces joined by a veth pair: `v1` in `dut`, `e0` in `host`, both with an address.
struct Pair {
    dut: Netns,
    host: Netns,
    scratch: Scratch,
}

impl Pair {
    fn new(options: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let dut = Netns::new(&scratch, "dut").unwrap();
        let host = Netns::new(&scratch, "host").unwrap();
        // Nothing is sent but what the tests send.
        for ns in [&dut, &host] {
            ns.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1").unwrap();
        }
        let peer = format!("type veth peer name e0 netns {} {options}", host.name());
        dut.ip(&format!("link add v1 {options} {peer}")).unwrap();
        dut.ip("addr add 10.9.9.1/24 dev v1").unwrap();
        host.ip("addr add 10.9.9.2/24 dev e0").unwrap();
        dut.ip("link set v1 up").unwrap();
        host.ip("link set e0 up").unwrap();
        Self { dut, host, scratch }
    }

    fn attach(&self, mode: AttachMode, frags: bool, force: bool) -> Result<RedirectProgram, Error> {
        self.attach_to("v1", mode, frags, force)
    }

    fn attach_to(
        &self,
        port: &'static str,
        mode: AttachMode,
        frags: bool,
        force: bool,
    ) -> Result<RedirectProgram, Error> {
        self.dut
            .enter(move || {
                let device = Device::find(port).unwrap();
                Ok(RedirectProgram::attach(&Attach {
                    ifindex: device.ifindex,
                    port,
                    mode,
                    n_queues: device.queues.rx,
                    frags,
                    tags: false,
                    force,
                }))
            })
            .unwrap()
    }

    /// What `ip link` says about XDP programs on `v1`.
    fn xdp(&self) -> String {
        let line = self.dut.ip("-d link show dev v1").unwrap();
        line.lines().filter(|line| line.contains("xdp")).collect()
    }

    fn ping_answered(&self) {
        let ping = Ping::new(&self.host, "10.9.9.1").count(3).run(&self.scratch).unwrap();
        assert_eq!(ping.lost(), 0);
    }
}

#[test]
fn attaches_in_either_mode_with_and_without_frags() {
    let pair = Pair::new("");
    for mode in [AttachMode::Native, AttachMode::Generic] {
        for frags in [false, true] {
            let program = pair.attach(mode, frags, false).unwrap();
            assert!(program.program_id() > 0);
            assert_eq!(program.mode(), mode);
            let shown = pair.xdp();
            assert!(shown.contains(&format!("prog/xdp id {}", program.program_id())), "{shown}");
            drop(program);
            assert_eq!(pair.xdp(), "", "dropping it detaches");
        }
    }
}

#[test]
fn packets_of_queues_without_socket_pass_and_are_counted() {
    let pair = Pair::new("");
    for mode in [AttachMode::Native, AttachMode::Generic] {
        let program = pair.attach(mode, false, false).unwrap();
        assert_eq!(program.unbound_packets().unwrap(), 0);
        pair.ping_answered();
        assert!(program.unbound_packets().unwrap() >= 3, "three echo requests at least");
    }
}

#[test]
fn a_queue_beyond_the_map_is_refused_and_clearing_an_empty_one_is_fine() {
    let pair = Pair::new("numrxqueues 4 numtxqueues 4");
    let program = pair.attach(AttachMode::Native, false, false).unwrap();
    let n = pair.dut.enter(|| Ok(Device::find("v1").unwrap().queues.rx)).unwrap();
    program.clear(0).unwrap();
    let error = program.set(n, program.link_fd()).unwrap_err();
    assert!(matches!(error, Error::NoSuchQueue { queues: Some(found), .. } if found == n));
    program.set(0, program.link_fd()).unwrap_err();
}

#[test]
fn a_second_attach_is_refused_and_names_the_first() {
    let pair = Pair::new("");
    let first = pair.attach(AttachMode::Native, false, false).unwrap();
    for mode in [AttachMode::Native, AttachMode::Generic] {
        let error = pair.attach(mode, false, false).unwrap_err();
        let Error::ForeignProgram { port, id, name } = &error else { panic!("{error}") };
        assert_eq!((port.as_str(), *id), ("v1", first.program_id()));
        assert_eq!(name.as_deref(), Some("redirect"));
        let text = error.to_string();
        assert!(text.contains("\"redirect\"") && text.contains(&id.to_string()), "{text}");
    }
    let error = pair.attach(AttachMode::Native, false, true).unwrap_err();
    assert!(matches!(error, Error::ForeignLink { .. }), "a link is not replaced by force: {error}");
    assert!(pair.xdp().contains(&format!("id {}", first.program_id())), "it was not touched");
}

#[test]
fn force_replaces_a_program_that_was_attached_by_netlink() {
    let pair = Pair::new("");
    let object = pair.scratch.path().join("pass.o");
    let source = pair.scratch.path().join("pass.c");
    std::fs::write(
        &source,
        "__attribute__((section(\"xdp\"), used)) int stranger(void *ctx) { return 2; }\n\
         char l[] __attribute__((section(\"license\"), used)) = \"GPL\";\n",
    )
    .unwrap();
    let (source, object) = (source.display(), object.display());
    pair.dut.run(&format!("clang -O2 -target bpf -c {source} -o {object}")).unwrap();
    for (mode, command) in [(AttachMode::Native, "xdpdrv"), (AttachMode::Generic, "xdpgeneric")] {
        pair.dut.ip(&format!("link set dev v1 {command} obj {object} sec xdp")).unwrap();
        let error = pair.attach(mode, false, false).unwrap_err();
        assert!(matches!(error, Error::ForeignProgram { .. }), "{error}");
        let program = pair.attach(mode, false, true).unwrap();
        assert!(pair.xdp().contains(&format!("id {}", program.program_id())));
        pair.ping_answered();
        drop(program);
        assert_eq!(pair.xdp(), "");
    }
}

#[test]
fn what_the_driver_refuses_says_how_to_help() {
    let pair = Pair::new("");
    pair.host.ip("link set e0 mtu 9000").unwrap();
    pair.dut.ip("link set v1 mtu 9000").unwrap();
    let error = pair.attach(AttachMode::Native, false, false).unwrap_err();
    assert!(matches!(error, Error::AttachRefused { .. }), "{error}");
    assert!(error.to_string().contains("MTU"), "{error}");
    pair.attach(AttachMode::Native, true, false).unwrap();

    pair.dut.ip("link add link v1 name m1 type macvlan mode passthru").unwrap();
    let error = pair.attach_to("m1", AttachMode::Native, false, false).unwrap_err();
    assert!(error.to_string().contains("best-effort"), "{error}");
    pair.attach_to("m1", AttachMode::Generic, false, false).unwrap();
}

#[test]
fn a_missing_capability_is_named() {
    let pair = Pair::new("");
    let mut command = pair.dut.command("setpriv");
    command.args(["--bounding-set", "-bpf,-sys_admin", "--inh-caps", "-bpf,-sys_admin"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child_attaches", "--nocapture"]).env(CHILD, "v1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("CAP_BPF is missing"), "{text}");
}

#[test]
fn killing_the_process_detaches() {
    let pair = Pair::new("");
    let mut command = pair.dut.command(std::env::current_exe().unwrap().to_str().unwrap());
    command.args(["--exact", "child_attaches", "--nocapture"]).env(CHILD, "v1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("attached")), "the child attaches");
    assert_ne!(pair.xdp(), "");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no XDP program on v1", Duration::from_secs(5), || {
        Ok(pair.xdp().is_empty().then_some(()))
    })
    .unwrap();
}

/// Set in the child processes of the tests above: the interface to attach to.
const CHILD: &str = "XVS_TEST_ATTACH_TO";

/// Not a test by itself: the child process of the two above attaches and waits to be killed.
#[test]
fn child_attaches() {
    let Ok(port) = std::env::var(CHILD) else { return };
    let ifindex = Device::find(&port).unwrap().ifindex;
    let wanted = Attach {
        ifindex,
        port: &port,
        mode: AttachMode::Native,
        n_queues: 1,
        frags: false,
        tags: false,
        force: false,
    };
    match RedirectProgram::attach(&wanted) {
        Ok(program) => {
            println!("attached {}", program.program_id());
            std::io::stdin().lines().for_each(drop);
        }
        Err(error) => eprintln!("{error}"),
    }
}
