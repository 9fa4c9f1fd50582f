# SPDX-License-Identifier: BSL-1.0
include_guard()

# Headers as users meet them. Each compiles alone and twice, without run-time type information; not in a build for
# another machine, whose standard library is one of the others'. All compile together without it while min, max and
# other names are macros, in the next standard, and beside the real <windows.h> where there is one. They link into one
# program, which fails on a definition in two translation units.
function(add_headers_layer)
  look_for_asio()
  look_for_nats()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/headers)
  set(all "")
  set(standard "")
  set(sources "")
  list_headers(names base)
  set(half even)
  foreach(name IN LISTS names)
    file(STRINGS ${base}/${name} included REGEX "^#include <")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${base}/${name})
    if(included MATCHES "boost/asio" AND NOT ASYNCSTEPS_TEST_HAS_ASIO)
      message(STATUS "${name} is not tested: boost/asio.hpp is not there or does not compile (Debian: libboost-dev)")
      continue()
    endif()
    if(name MATCHES "/interop/(detail/)?nats" AND NOT ASYNCSTEPS_TEST_NATS)
      message(STATUS "${name} is not tested: no NATS client or server (Debian: libnats-dev nats-server)")
      continue()
    endif()
    if(included MATCHES "pplx/") # by unit.interop_pplx
      continue()
    endif()
    list(APPEND all "#include \"${name}\"")
    # Not headers of one platform, nor those that old versions lack.
    list(FILTER included EXCLUDE REGEX "<linux/|<sys/|<sched|<intrin|<unistd|<pthread|/cancellation_signal")
    list(TRANSFORM included REPLACE " *//.*" "")
    list(APPEND standard ${included})
    if(CMAKE_CROSSCOMPILING)
      continue()
    endif()
    if(name MATCHES "/detail/")
      if(half STREQUAL "even")
        set(half odd)
      else()
        set(half even)
      endif()
      if(NOT ASYNCSTEPS_TEST_DETAIL_ALONE MATCHES "^(all|${half})$")
        continue()
      endif()
    endif()
    string(REPLACE "/" "_" source ${name})
    set(source ${folder}/${source}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n#include \"${name}\" // again\n")
    list(APPEND sources ${source})
    if(NOT included MATCHES "boost/")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -fno-rtti)
    endif()
  endforeach()
  list(LENGTH all count)
  list(APPEND standard "#include <cstdio>")
  list(REMOVE_DUPLICATES standard)
  list(JOIN standard "\n" standard)
  list(JOIN all "\n" all)
  # As <windows.h>, <objbase.h>, Qt, X11, <complex.h> and the <AssertMacros.h> of macOS define them.
  file(
    CONFIGURE
    OUTPUT ${folder}/macros.cpp
    CONTENT [[
@standard@
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define hyper long long
#define interface struct
#define near
#define far
#define pascal
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define TRUE 1
#define FALSE 0
#define ERROR 0
#define NO_ERROR 0L
#define DELETE (0x00010000L)
#define ABSOLUTE 1
#define RELATIVE 2
#define STRICT 1
#define Yield()
#define GetObject GetObjectW
#define CreateEvent CreateEventW
#define signals public
#define slots
#define I (__extension__ 1.0iF)
#define Bool int
#define Status int
#define True 1
#define False 0
#define None 0L
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Convex 2
#define Unsorted 0
#define CurrentTime 0L
#define KeyPress 2
#define Expose 12
#define GrayScale 1
#define ParentRelative 1L
#define CursorShape 0
#define FontChange 255
#define require(a, b)
#define check(a)
#define verify(a)
@all@
int main() { std::printf("count: @count@ headers\n"); }
]]
    @ONLY)
  # All together in the next standard, with the compiler's extensions.
  file(CONFIGURE OUTPUT ${folder}/next_standard.cpp CONTENT "@all@\n" @ONLY)
  set_source_files_properties(${folder}/next_standard.cpp PROPERTIES COMPILE_OPTIONS -std=gnu++23)
  list(APPEND sources ${folder}/macros.cpp ${folder}/next_standard.cpp)
  if(WIN32)
    foreach(order IN ITEMS first last)
      set(source ${folder}/windows_h_${order}.cpp)
      set(lines "#include <windows.h>" ${all})
      if(order STREQUAL "last")
        list(REVERSE lines)
      endif()
      list(JOIN lines "\n" lines)
      file(CONFIGURE OUTPUT ${source} CONTENT "@lines@\n" @ONLY)
      list(APPEND sources ${source})
    endforeach()
  endif()
  add_executable(headers.all ${sources})
  target_link_libraries(headers.all PRIVATE asyncsteps::steps asyncsteps_test_flags ${ASYNCSTEPS_TEST_NATS})
  # A macro of a header that is not included is 0 in a condition: -Wundef.
  target_compile_options(headers.all PRIVATE -O0 -Wundef)
  # The headers are compiled as the user's own code also when they come from an installed package.
  set_target_properties(headers.all PROPERTIES NO_SYSTEM_FROM_IMPORTED ON)
  register_test(headers.all headers 60 headers.all)
  # With the strings of libstdc++'s old ABI and without char8_t, which would not link with the others.
  if(NOT CMAKE_CROSSCOMPILING)
    file(CONFIGURE OUTPUT ${folder}/old_strings.cpp CONTENT "@all@\n" @ONLY)
    add_library(asyncsteps_headers_old_strings OBJECT ${folder}/old_strings.cpp)
    target_link_libraries(asyncsteps_headers_old_strings PRIVATE asyncsteps::steps asyncsteps_test_flags
                                                                 ${ASYNCSTEPS_TEST_NATS})
    target_compile_options(asyncsteps_headers_old_strings PRIVATE -O0 -D_GLIBCXX_USE_CXX11_ABI=0 -fno-char8_t)
    set_target_properties(asyncsteps_headers_old_strings PROPERTIES NO_SYSTEM_FROM_IMPORTED ON)
  endif()
  # What the headers define apart from templates, as a user may optimise it: g++ then warns of more.
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_CROSSCOMPILING)
    file(CONFIGURE OUTPUT headers_optimised.cpp CONTENT
         "#define ASYNCSTEPS_IMPLEMENT\n#include \"async/async.hpp\"\n#include \"steps/steps.hpp\"\n")
    add_library(asyncsteps_headers_optimised OBJECT ${CMAKE_CURRENT_BINARY_DIR}/headers_optimised.cpp)
    target_link_libraries(asyncsteps_headers_optimised PRIVATE asyncsteps::steps asyncsteps_test_flags)
    target_compile_options(asyncsteps_headers_optimised PRIVATE -O3)
    set_target_properties(asyncsteps_headers_optimised PROPERTIES NO_SYSTEM_FROM_IMPORTED ON)
  endif()
endfunction()
