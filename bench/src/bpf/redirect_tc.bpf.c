// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A peer: sends each packet out of the other interface at the first chance that traffic control has. */
#include "redirect.h"

SEC("tc")
int redirect(struct __sk_buff *skb)
{
	return bpf_redirect(other(skb->ingress_ifindex), 0);
}
