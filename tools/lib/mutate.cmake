# SPDX-License-Identifier: Apache-2.0
#
# For tools/mutate: what defects are planted in is built file by file, so that one costs no more than a file. All the rest
# is built in batches as everywhere else, which ccache has.

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL set_target_properties ask_loader ask_agent ask_member ask_control_switch ask_client ask_cli PROPERTIES UNITY_BUILD OFF)
