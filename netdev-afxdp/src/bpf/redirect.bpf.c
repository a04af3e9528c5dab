// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The XDP program of an AF_XDP port, twice: `redirect_frags` declares that it can live with packets of several
 * buffers, `redirect` does not; only one is loaded.
 */
#include "redirect.h"

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	return to_socket(ctx);
}

SEC("xdp.frags")
int redirect_frags(struct xdp_md *ctx)
{
	return to_socket(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
