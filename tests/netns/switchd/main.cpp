// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/netns/switchd/environment.h"

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    ask::test::enter_environment();
    return context.run();
}
