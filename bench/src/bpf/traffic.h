/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What source and sink agree on, and the headers that both read. */
#ifndef XVS_TRAFFIC_H
#define XVS_TRAFFIC_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The discard service: packets to this UDP port are the benchmark's, all others are left alone. */
#define TRAFFIC_PORT 9

/* The first source port, and how many there are; with as many flows as ports the next address begins. */
#define TRAFFIC_FIRST_FLOW 1024
#define TRAFFIC_PORTS 60000

struct headers {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

/* The headers at the start of a packet, or NULL when it is shorter. */
static __always_inline struct headers *headers_of(struct xdp_md *ctx)
{
	struct headers *headers = (void *)(long)ctx->data;

	return (void *)(headers + 1) > (void *)(long)ctx->data_end ? NULL : headers;
}

#endif
