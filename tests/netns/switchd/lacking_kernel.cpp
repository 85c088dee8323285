// SPDX-License-Identifier: Apache-2.0
//
// Preloaded, an older kernel: libbpf's bpf_map_create() fails, as there, for what ASK_TEST_LACKS names (words
// out of "inner", "mmapable", "devmap_hash", separated by commas).
#include <dlfcn.h>
#include <linux/bpf.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <bpf/bpf.h>

namespace {

bool lacks(const char* word) {
    const char* all = std::getenv("ASK_TEST_LACKS");  // NOLINT(concurrency-mt-unsafe): nobody changes it
    return all != nullptr && std::strstr(all, word) != nullptr;
}

}  // namespace

extern "C" int bpf_map_create(bpf_map_type type, const char* name, __u32 key_size, __u32 value_size,
                              __u32 max_entries, const bpf_map_create_opts* options) {
    const __u32 flags = options == nullptr ? 0 : options->map_flags;
    if (((flags & BPF_F_INNER_MAP) != 0 && lacks("inner")) ||
        ((flags & BPF_F_MMAPABLE) != 0 && lacks("mmapable")) ||
        (type == BPF_MAP_TYPE_DEVMAP_HASH && lacks("devmap_hash"))) {
        errno = EINVAL;
        return -EINVAL;
    }
    using Create = decltype(&bpf_map_create);
    const auto next = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "bpf_map_create"));
    return next(type, name, key_size, value_size, max_entries, options);
}
