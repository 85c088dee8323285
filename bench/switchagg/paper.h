// SPDX-License-Identifier: Apache-2.0
//
// Numbers of SwitchAgg's own (papers are wrong at times: tests/papers/switchagg).
#pragma once

namespace ask::bench::paper {

// Section 5, and Table 3: cycles of each stage.
inline constexpr double kHertz = 200e6;
inline constexpr double kHeaderAnalyzer = 3;
inline constexpr double kCrossbar = 2;
inline constexpr double kFrontHash = 10;
inline constexpr double kFrontAggregate = 18;
inline constexpr double kFrontForward = 5;
inline constexpr double kBackAggregate = 33;
inline constexpr double kBackFlush = 3.125e7;
// What section 6.2 makes of the last.
inline constexpr double kFlushAsTold = 78e-3;

constexpr double seconds(double cycles) {
    return cycles / kHertz;
}

}  // namespace ask::bench::paper
