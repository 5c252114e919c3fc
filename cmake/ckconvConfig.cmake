# Targets for CMake, the same after find_package(ckconv) and after add_subdirectory:
#   ckconv::ckconv  the headers; one of your files defines CKCONV_IMPLEMENTATION
#   ckconv::cpu     the implementation, compiled in your build (C, or C++ where C is not enabled)
#   ckconv::hip     the same for AMD GPUs and the CPU, where the language HIP is enabled
#   ckconv::cuda    the same for NVIDIA GPUs and the CPU, where the language CUDA is enabled
#   ckconv::lib     the library that `make install` built; only beside it
# A program links one of the last four. They are compiled only if something needs them, with -O3 whatever the
# build type is: without optimisation they are 5 to 13 times slower. GPU architectures are the project's
# CMAKE_HIP_ARCHITECTURES or CMAKE_CUDA_ARCHITECTURES (90a for an H100, not 90). CKCONV_OPENMP=OFF: one thread.
include("${CMAKE_CURRENT_LIST_DIR}/ckconvConfigVersion.cmake")
set(ckconv_VERSION "${PACKAGE_VERSION}")
option(CKCONV_OPENMP "ckconv: threads where the compiler has OpenMP" ON)
get_property(ckconv_languages GLOBAL PROPERTY ENABLED_LANGUAGES)

if(NOT TARGET ckconv::ckconv)
    add_library(ckconv::ckconv INTERFACE IMPORTED GLOBAL)
    set_target_properties(ckconv::ckconv PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${ckconv_INCLUDE_DIR}")
    if(UNIX)
        set_target_properties(ckconv::ckconv PROPERTIES INTERFACE_LINK_LIBRARIES m)
    endif()
endif()

find_library(ckconv_LIBRARY ckconv PATHS "${CMAKE_CURRENT_LIST_DIR}/../.." NO_DEFAULT_PATH)
mark_as_advanced(ckconv_LIBRARY)
if(ckconv_LIBRARY AND NOT TARGET ckconv::lib)
    add_library(ckconv::lib UNKNOWN IMPORTED GLOBAL)
    set_target_properties(ckconv::lib PROPERTIES IMPORTED_LOCATION "${ckconv_LIBRARY}"
                          INTERFACE_LINK_LIBRARIES ckconv::ckconv)
endif()

# ckconv::NAME, compiled as LANGUAGE from a file that holds the two lines
function(ckconv_add_library name language suffix)
    if(TARGET ckconv::${name} OR NOT language IN_LIST ckconv_languages)
        return()
    endif()
    set(source "${CMAKE_BINARY_DIR}/ckconv/ckconv_${name}.${suffix}")
    file(WRITE "${source}.new" "#define CKCONV_IMPLEMENTATION\n#include \"ckconv.h\"\n")
    configure_file("${source}.new" "${source}" COPYONLY)
    add_library(ckconv_${name} STATIC EXCLUDE_FROM_ALL "${source}")
    add_library(ckconv::${name} ALIAS ckconv_${name})
    set_source_files_properties("${source}" PROPERTIES LANGUAGE ${language})
    set_target_properties(ckconv_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE ${language})
    target_link_libraries(ckconv_${name} PUBLIC ckconv::ckconv)
    if(name STREQUAL cpu)
        if(NOT MSVC)
            target_compile_options(ckconv_${name} PRIVATE -O3)
        endif()
    else()
        set_target_properties(ckconv_${name} PROPERTIES ${language}_STANDARD 17 ${language}_STANDARD_REQUIRED ON)
        target_compile_options(ckconv_${name} PRIVATE -O3)
        target_compile_definitions(ckconv_${name} PRIVATE CKCONV_REQUIRE_GPU)
    endif()
    if(CKCONV_OPENMP AND name STREQUAL cpu)
        find_package(OpenMP QUIET COMPONENTS ${language})
        if(OpenMP_${language}_FOUND)
            target_link_libraries(ckconv_${name} PRIVATE OpenMP::OpenMP_${language})
        endif()
    elseif(CKCONV_OPENMP AND CMAKE_${language}_COMPILER_ID STREQUAL NVIDIA)
        find_package(OpenMP QUIET COMPONENTS CXX)
        if(OpenMP_CXX_FOUND)
            target_compile_options(ckconv_${name} PRIVATE "-Xcompiler=${OpenMP_CXX_FLAGS}")
            target_link_libraries(ckconv_${name} PRIVATE ${OpenMP_CXX_LIBRARIES})
        endif()
    endif()
endfunction()

ckconv_add_library(cpu C c)
ckconv_add_library(cpu CXX cc)
ckconv_add_library(hip HIP hip)
ckconv_add_library(cuda CUDA cu)
