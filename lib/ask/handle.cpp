// SPDX-License-Identifier: Apache-2.0
#include "lib/ask/handle.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace ask {
namespace {

thread_local std::string last_error;

}  // namespace

int report(const Error& error) {
    last_error = error.text();
    return static_cast<int>(error.code());
}

const char* last_error_text() {
    return last_error.c_str();
}

// All that is open, for a fork's child. Never destroyed: threads may outlive main().
struct Registry {
    std::mutex mutex;
    std::set<Handle*> handles;

    static Registry& get();
    // In the child.
    void disown();
};

void Registry::disown() {
    for (Handle* const handle : handles) {
        for (const int fd : handle->fds_) {
            ::close(fd);
        }
        handle->fds_.clear();
        handle->of_parent_ = true;
    }
}

Registry& Registry::get() {
    static Registry* const kAll = [] {
        auto* made = new Registry;
        ::pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                         [] {
                             get().disown();
                             get().mutex.unlock();
                         });
        return made;
    }();
    return *kAll;
}

void Handle::enlist(std::vector<int> fds) {
    Registry& registry = Registry::get();
    const std::scoped_lock lock(registry.mutex);
    fds_ = std::move(fds);
    registry.handles.insert(this);
}

void Handle::dismiss() {
    Registry& registry = Registry::get();
    const std::scoped_lock lock(registry.mutex);
    registry.handles.erase(this);
}

Result<> Turn::check() const {
    const std::string what = handle_.what();
    if (handle_.of_parent_) {
        return usage("the " + what + " belongs to the process that opened it, not to a fork's child");
    }
    return mine_ ? Result<>() : usage("another thread is in a call with this " + what);
}

}  // namespace ask
