// SPDX-License-Identifier: Apache-2.0
#include "lib/client/stream_view.h"

#include <algorithm>

#include "lib/client/convert.h"
#include "proto/local.pb.h"

namespace ask::client {

const OpenStreamWindow* StreamView::find(std::uint64_t number) const {
    const auto at = std::ranges::find(windows, number, &OpenStreamWindow::number);
    return at == windows.end() ? nullptr : &*at;
}

const OpenStreamWindow* StreamView::next(std::uint64_t number) const {
    const auto at = std::ranges::find_if(
        windows, [number](const OpenStreamWindow& window) { return window.number > number; });
    return at == windows.end() ? nullptr : &*at;
}

Result<StreamView> view_from_proto(const v1::StreamState& state) {
    const auto op = op_from_proto(state.op());
    ASK_PASS(op);
    StreamView view;
    view.nonce = state.nonce();
    view.every = std::chrono::milliseconds(state.every_ms());
    view.op = *op;
    view.committed = state.committed();
    view.first = state.first();
    view.last = state.last();
    view.clock_ms = state.clock_ms();
    view.ended = state.ended();
    view.trouble = state.trouble();
    view.windows.reserve(static_cast<std::size_t>(state.windows_size()));
    for (const v1::OpenWindow& window : state.windows()) {
        view.windows.push_back({.number = window.number(),
                                .begins_ms = static_cast<std::int64_t>(window.begins_ms()),
                                .task_id = window.task_id(),
                                .instance = window.instance()});
    }
    std::ranges::sort(view.windows, {}, &OpenStreamWindow::number);
    view.left_out.reserve(static_cast<std::size_t>(state.left_out_size()));
    for (const v1::LeftOut& left_out : state.left_out()) {
        view.left_out.push_back({left_out.window(), left_out.reason()});
    }
    return view;
}

std::chrono::milliseconds until(const OpenStreamWindow& window, std::int64_t clock_ms,
                                std::chrono::system_clock::time_point now) {
    using std::chrono::milliseconds;
    const auto here = std::chrono::floor<milliseconds>(now.time_since_epoch());
    return std::max(milliseconds(window.begins_ms - clock_ms) - here, milliseconds(0));
}

}  // namespace ask::client
