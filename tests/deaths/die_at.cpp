// SPDX-License-Identifier: Apache-2.0
//
// For LD_PRELOAD: kills ask-switchd right before the N-th change it makes to what outlives it, that is to
// maps and pins. N stands in the file that ASK_DIE_FILE names, and is counted down there; without the file
// nothing happens. So a test can have it die between any two steps of whatever it does.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// tools/lab starts the daemon with programs of its own.
bool is_switchd() {
    return std::strcmp(program_invocation_short_name, "ask-switchd") == 0;
}

void step() {
    const char* const path = std::getenv("ASK_DIE_FILE");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (path == nullptr || !is_switchd()) {
        return;
    }
    const int saved = errno;
    const int fd = ::open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        char text[16] = {};
        ::flock(fd, LOCK_EX);
        const bool read = ::pread(fd, text, sizeof(text) - 1, 0) > 0;
        const long left = read ? std::strtol(text, nullptr, 10) : 0;
        if (left == 1) {
            ::syscall(SYS_unlink, path);
            ::kill(::getpid(), SIGKILL);
        }
        if (left > 1) {
            const int length = std::snprintf(text, sizeof(text), "%-8ld\n", left - 1);
            [[maybe_unused]] const auto written = ::pwrite(fd, text, static_cast<std::size_t>(length), 0);
        }
        ::close(fd);
    }
    errno = saved;
}

template <typename Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

bool changes(long command) {
    return command == BPF_MAP_UPDATE_ELEM || command == BPF_MAP_DELETE_ELEM || command == BPF_OBJ_PIN ||
           command == BPF_LINK_CREATE || command == BPF_MAP_UPDATE_BATCH || command == BPF_MAP_DELETE_BATCH;
}

}  // namespace

extern "C" {

// libbpf's way into the kernel.
long syscall(long number, ...) noexcept {
    static const auto kReal = next<long (*)(long, ...)>("syscall");
    va_list list;
    va_start(list, number);
    long a[6];
    for (long& argument : a) {
        argument = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_bpf && changes(a[0])) {
        step();
    }
    return kReal(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int unlink(const char* path) noexcept {
    step();
    return next<int (*)(const char*)>("unlink")(path);
}

int unlinkat(int directory, const char* path, int flags) noexcept {
    step();
    return next<int (*)(int, const char*, int)>("unlinkat")(directory, path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
    step();
    return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}
}
