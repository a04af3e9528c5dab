// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A peer: sends each frame out of the other interface before the kernel makes a packet of it. */
#include "redirect.h"

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	return bpf_redirect(other(ctx->ingress_ifindex), 0);
}
