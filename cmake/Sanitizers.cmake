# SPDX-License-Identifier: Apache-2.0
#
# ASK_SANITIZE is a comma separated list for -fsanitize. It applies to the whole tree, generated code
# included, because an uninstrumented half hides what the other half does.

set(ASK_SANITIZE "" CACHE STRING "Sanitizers for user space: empty, 'address,undefined' or 'thread'")
set_property(CACHE ASK_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")

if(ASK_SANITIZE)
    add_compile_options(-fsanitize=${ASK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${ASK_SANITIZE})
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
else()
    # _FORTIFY_SOURCE needs optimisation and hides bugs from AddressSanitizer, hence only here.
    add_compile_options(-fstack-protector-strong $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
endif()
