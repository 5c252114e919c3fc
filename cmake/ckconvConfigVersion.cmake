# The version that find_package asks for: that of the header. Minor versions are not compatible.
foreach(ckconv_up .. ../../../include ../../../../include)
    if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/${ckconv_up}/ckconv.h")
        get_filename_component(ckconv_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/${ckconv_up}" ABSOLUTE)
        break()
    endif()
endforeach()
set(PACKAGE_VERSION "")
file(STRINGS "${ckconv_INCLUDE_DIR}/ckconv.h" ckconv_lines LIMIT_COUNT 3
     REGEX "^#define CKCONV_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
foreach(ckconv_line IN LISTS ckconv_lines)
    string(REGEX REPLACE "^.* " "" ckconv_number "${ckconv_line}")
    string(APPEND PACKAGE_VERSION ".${ckconv_number}")
endforeach()
string(SUBSTRING "${PACKAGE_VERSION}" 1 -1 PACKAGE_VERSION)

if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" ckconv_minor "${PACKAGE_VERSION}")
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION AND
   NOT PACKAGE_FIND_VERSION VERSION_LESS ckconv_minor)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
