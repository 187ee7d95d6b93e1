# Flags and helpers that every room shares.

add_library(ck_flags INTERFACE)
target_compile_definitions(ck_flags INTERFACE _GNU_SOURCE CK_VERSION="${PROJECT_VERSION}")
target_compile_options(ck_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wformat=2 -Wpointer-arith -Wwrite-strings -Wundef
  -fno-common -fstack-protector-strong -fno-strict-aliasing)
target_include_directories(ck_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CK_SANITIZE AND NOT CK_FUZZ)
  target_compile_options(ck_flags INTERFACE -D_FORTIFY_SOURCE=2)
endif()
if(CK_SANITIZE)
  string(REPLACE ";" "," _san "${CK_SANITIZE}")
  target_compile_options(ck_flags INTERFACE -fsanitize=${_san} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ck_flags INTERFACE -fsanitize=${_san})
endif()
if(CK_FUZZ)
  target_compile_options(ck_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(ck_flags INTERFACE -fsanitize=address,undefined)
endif()

# ck_room(NAME LIBS... ): a static library of every .c in the folder.
function(ck_room name)
  file(GLOB _src CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  add_library(${name} STATIC ${_src})
  target_link_libraries(${name} PUBLIC ck_flags ${ARGN})
endfunction()

# ck_unit_test(NAME ROOM...): tests/unit/NAME.c with cmocka, run by ctest under the label "unit".
function(ck_unit_test name)
  add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.c)
  target_link_libraries(${name} PRIVATE ck_flags ${ARGN} PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 60)
endfunction()

# ck_fuzz_target(NAME ROOM...): tests/fuzz/NAME.c with libFuzzer; corpus in tests/fuzz/corpus/NAME.
function(ck_fuzz_target name)
  add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.c)
  target_link_libraries(${name} PRIVATE ck_flags ${ARGN})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
