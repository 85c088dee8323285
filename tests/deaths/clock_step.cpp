// SPDX-License-Identifier: Apache-2.0
//
// For LD_PRELOAD: a wall clock that is stepped. What a process reads as the time of day is the kernel's and
// the seconds in the file that ASK_CLOCK_FILE names, which may change at any time. The monotonic clock is
// left alone. The kernel knows nothing of it: who asks it to wait until a time of day, as read here, waits
// for an hour too long, or not at all, which is what becomes of such a wait when a real clock is stepped
// meanwhile.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace {

time_t offset() {
    const char* const path = std::getenv("ASK_CLOCK_FILE");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (path == nullptr) {
        return 0;
    }
    const int saved = errno;
    char text[16] = {};
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        [[maybe_unused]] const auto got = ::read(fd, text, sizeof(text) - 1);
        ::close(fd);
    }
    errno = saved;
    return std::strtol(text, nullptr, 10);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    using Function = int (*)(clockid_t, timespec*);
    static const auto kReal = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
    const int result = kReal(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        time->tv_sec += offset();
    }
    return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
    timespec now{};
    const int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t* out) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != nullptr) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
}
