// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counts how often one process enters one system call: the same count for every switch, whatever it
 * says of itself. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct state {
	/* The namespace of process identifiers (device and inode of its file), and the process in it. */
	__u64 dev;
	__u64 ino;
	__u64 tgid;
	__u64 syscall;
	__u64 calls;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

SEC("raw_tp/sys_enter")
int count_calls(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_pidns_info pid;
	struct state *state;
	__u32 zero = 0;

	state = bpf_map_lookup_elem(&states, &zero);
	if (!state || ctx->args[1] != state->syscall)
		return 0;
	if (bpf_get_ns_current_pid_tgid(state->dev, state->ino, &pid, sizeof(pid)))
		return 0;
	if (pid.tgid == state->tgid)
		__sync_fetch_and_add(&state->calls, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
