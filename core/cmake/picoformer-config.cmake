# find_package(picoformer) gives picoformer::picoformer, the static library, and
# picoformer::shared where there is a shared one. This file lies in PREFIX/share/picoformer.
get_filename_component(_picoformer "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
foreach(_kind IN ITEMS picoformer shared)
    set(_file libpicoformer.so)
    if(_kind STREQUAL picoformer)
        set(_file libpicoformer.a)
    endif()
    find_library(picoformer_${_kind} NAMES ${_file} PATHS "${_picoformer}"
        PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH)
    if(picoformer_${_kind} AND NOT TARGET picoformer::${_kind})
        add_library(picoformer::${_kind} UNKNOWN IMPORTED)
        set_target_properties(picoformer::${_kind} PROPERTIES
            IMPORTED_LOCATION "${picoformer_${_kind}}"
            INTERFACE_INCLUDE_DIRECTORIES "${_picoformer}/include")
    endif()
endforeach()
if(NOT TARGET picoformer::picoformer)
    set(picoformer_FOUND FALSE)
    set(picoformer_NOT_FOUND_MESSAGE "libpicoformer.a is not below ${_picoformer}")
endif()
