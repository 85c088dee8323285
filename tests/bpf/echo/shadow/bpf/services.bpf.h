/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of services with one more, in front of bpf/services.bpf.h on the include path: so the dispatcher,
 * its maps and the tuples' service are the shipped sources.
 */
#pragma once

#include "bpf/tuples/format.bpf.h"
#include "bpf/tuples/long.bpf.h"
#include "bpf/tuples/program.bpf.h"
#include "bpf/values/format.bpf.h"
#include "bpf/values/program.bpf.h"
#include "tests/bpf/echo/echo.bpf.h"

#define ASK_SERVICES(service) \
    service(ASK_SERVICE_TUPLES, tuples) service(ASK_SERVICE_VALUES, values) service(ECHO_SERVICE, echo)
