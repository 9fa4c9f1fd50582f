# SPDX-License-Identifier: BSL-1.0
#
# Runs the port with stand-ins for the functions of vcpkg that it calls: they do what their documentation says, so far as
# the port asks for it, and refuse arguments that the port does not use. A script: cmake -D...=... -P install.cmake, with
#   PORT   the port's folder        WORK     a folder to work in; the package is WORK/packages/asyncsteps
#   CXX    the compiler             VERSION  that the port must have
file(REMOVE_RECURSE ${WORK})
set(CURRENT_PACKAGES_DIR ${WORK}/packages/asyncsteps)

function(execute)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

# Takes the named arguments, all of which must be there, and refuses others.
macro(take_arguments one_value many_values)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "${one_value}" "${many_values}")
  foreach(name IN ITEMS ${one_value} ${many_values})
    if(NOT arg_${name})
      message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: ${name} is missing")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION} does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

function(vcpkg_cmake_configure)
  take_arguments(SOURCE_PATH OPTIONS)
  execute(${CMAKE_COMMAND} -G Ninja -S ${arg_SOURCE_PATH} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release
          -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  take_arguments("" "")
  execute(${CMAKE_COMMAND} --install ${WORK}/build)
endfunction()

# Moves the CMake package to share/PACKAGE_NAME, and mends how deep its files think that they lie.
function(vcpkg_cmake_config_fixup)
  take_arguments("PACKAGE_NAME;CONFIG_PATH" "")
  set(folder ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${folder})
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  file(READ ${folder}/${arg_PACKAGE_NAME}-targets.cmake text)
  string(REPLACE "${up}${up}${up}" "${up}${up}" mended "${text}")
  if(mended STREQUAL text)
    message(FATAL_ERROR "the targets' file does not find its prefix as expected:\n${text}")
  endif()
  file(WRITE ${folder}/${arg_PACKAGE_NAME}-targets.cmake "${mended}")
endfunction()

function(vcpkg_fixup_pkgconfig)
  take_arguments("" "")
  file(STRINGS ${CURRENT_PACKAGES_DIR}/share/pkgconfig/asyncsteps.pc lines REGEX "^prefix=\\\${pcfiledir}/\\.\\./\\.\\.$")
  if(NOT lines)
    message(FATAL_ERROR "the pkg-config file does not find its prefix relative to itself")
  endif()
endfunction()

function(vcpkg_install_copyright)
  take_arguments("" FILE_LIST)
  file(COPY_FILE ${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/asyncsteps/copyright)
endfunction()

file(READ ${PORT}/vcpkg.json manifest)
string(JSON name GET "${manifest}" name)
string(JSON version GET "${manifest}" version)
if(NOT name STREQUAL "asyncsteps" OR NOT version STREQUAL VERSION)
  message(FATAL_ERROR "vcpkg.json is of ${name} ${version}, the library of asyncsteps ${VERSION}")
endif()

include(${PORT}/portfile.cmake)

# What vcpkg itself looks for after an installation.
file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE ${CURRENT_PACKAGES_DIR} ${CURRENT_PACKAGES_DIR}/*)
list(FILTER files EXCLUDE REGEX "^include/(async|steps)/|^share/(asyncsteps|pkgconfig)/")
if(files)
  message(FATAL_ERROR "installed beyond what belongs there: ${files}")
endif()
