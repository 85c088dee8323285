/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Between the dispatcher (bpf/switch.bpf.c) and the services that bpf/services.bpf.h lists. A
 * service called NAME has
 *
 *   NAME_check_header(hdr, task)	what is wrong with a header, type and service's bytes: a
 *					counter, or 0
 *   NAME_lay_out(ctx, hdr, task, bytes, packet)
 *					the same of the bytes that follow it, so many; sets extensions
 *					and line_words, by which the engine sums them up
 *   NAME_check_body(hdr, task, packet)	the same for a packet that is proved
 *   NAME_dedupes()		whether the channel's window tells what is new; if not, the program gets every
 *				packet as new, and none is passed
 *   NAME_passes(hdr)			whether packets of this type are kept from the program, which would
 *					pay for the question with each of the others
 *   NAME_pass(ctx, hdr)		takes those, new or seen, and leaves
 *   ask_NAME				the program that takes the others, and leaves
 *
 * All but the program run ahead of the dedupe, so what they refuse changes nothing. FIN is the
 * engine's: a service has its say on the header and never gets the packet.
 */
#pragma once

#include "bpf/engine/compat.bpf.h"
#include "bpf/engine/counters.bpf.h"
#include "bpf/engine/maps.bpf.h"
#include "bpf/engine/packet.bpf.h"
#include "bpf/services.bpf.h"
#include "lib/abi/wire.h"

#define ASK_ONE_SERVICE(number, name) +1u
#define ASK_SERVICE_COUNT (0u ASK_SERVICES(ASK_ONE_SERVICE))

/*
 * What takes a packet that has been proved: ASK_SERVICE_PROGRAMS for each service, by
 * ask_task.program. The first is in the object; the others may come from the loader.
 */
#define ASK_FIRST_PROGRAM(number, name) [ASK_SERVICE_PROGRAMS * (number)] = ask_##name,

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, ASK_SERVICE_COUNT *ASK_SERVICE_PROGRAMS);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct xdp_md *));
} data_programs SEC(".maps") = {
	.values = {ASK_SERVICES(ASK_FIRST_PROGRAM)},
};

static __always_inline __u32 service_check_header(__u32 service, const struct ask_hdr *hdr,
						  const struct ask_task *task)
{
#define ASK_CHECK_HEADER(number, name) \
	if (service == (number))       \
		return name##_check_header(hdr, task);
	ASK_SERVICES(ASK_CHECK_HEADER)
	return ASK_CNT_abort_state;
}

static __always_inline __u32 service_lay_out(struct xdp_md *ctx, __u32 service,
					     const struct ask_hdr *hdr, const struct ask_task *task,
					     __u32 bytes, struct ask_packet *packet)
{
#define ASK_LAY_OUT(number, name) \
	if (service == (number))  \
		return name##_lay_out(ctx, hdr, task, bytes, packet);
	ASK_SERVICES(ASK_LAY_OUT)
	return ASK_CNT_abort_state;
}

static __always_inline __u32 service_check_body(__u32 service, const struct ask_hdr *hdr,
						const struct ask_task *task,
						const struct ask_packet *packet)
{
#define ASK_CHECK_BODY(number, name) \
	if (service == (number))     \
		return name##_check_body(hdr, task, packet);
	ASK_SERVICES(ASK_CHECK_BODY)
	return ASK_CNT_abort_state;
}

static __always_inline bool service_dedupes(__u32 service)
{
#define ASK_DEDUPES(number, name) \
	if (service == (number))  \
		return name##_dedupes();
	ASK_SERVICES(ASK_DEDUPES)
	return true;
}

static __always_inline bool service_passes(__u32 service, const struct ask_hdr *hdr)
{
#define ASK_PASSES(number, name) \
	if (service == (number)) \
		return name##_passes(hdr);
	ASK_SERVICES(ASK_PASSES)
	return false;
}

static __always_inline int service_pass(struct xdp_md *ctx, __u32 service,
					const struct ask_hdr *hdr)
{
#define ASK_PASS(number, name)   \
	if (service == (number)) \
		return name##_pass(ctx, hdr);
	ASK_SERVICES(ASK_PASS)
	return leave_abort(ASK_CNT_abort_state);
}

/*
 * Goes on in one of a service's programs, of which `native` is the first. A call for each, since the
 * kernel makes a jump of one whose number is a constant; any other is indirect, and costs 18 ns
 * where those are guarded against speculation.
 */
static __always_inline int enter_program(struct xdp_md *ctx, const __u32 first, __u32 program,
					 int (*native)(struct xdp_md *))
{
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < ASK_SERVICE_PROGRAMS; i++) {
		if (program == i)
			ask_tail_call(ctx, &data_programs, first + i, native);
	}
	return leave_abort(ASK_CNT_abort_state);
}

static __always_inline int enter_service(struct xdp_md *ctx, __u32 service, __u32 program)
{
#define ASK_ENTER(number, name)  \
	if (service == (number)) \
		return enter_program(ctx, (number) * ASK_SERVICE_PROGRAMS, program, ask_##name);
	ASK_SERVICES(ASK_ENTER)
	return leave_abort(ASK_CNT_abort_state);
}
