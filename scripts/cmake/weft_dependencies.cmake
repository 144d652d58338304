# Finds what libweft links: shared by the build and by the installed package, whose consumers must link the same.
# None of these shows in a public header.

# OpenBLAS in its OpenMP build, named by path: the system's libopenblas.so may be the pthread build, whose own pool of
# threads competes with OpenMP's. Both have the soname libopenblas.so.0, so the directory goes into the RPATH as well.
function(weft_find_openblas)
  find_library(WEFT_OPENBLAS_LIBRARY
    NAMES openblas openblaso
    PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp /usr/lib/x86_64-linux-gnu/openblas-openmp
    NO_DEFAULT_PATH)
  find_library(WEFT_OPENBLAS_LIBRARY NAMES openblaso)  # the OpenMP build by Fedora's name
  find_path(WEFT_OPENBLAS_INCLUDE_DIR cblas.h
    PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp /usr/include/x86_64-linux-gnu/openblas-openmp
          /usr/include/openblas
    NO_DEFAULT_PATH)
  mark_as_advanced(WEFT_OPENBLAS_LIBRARY WEFT_OPENBLAS_INCLUDE_DIR)
  if(WEFT_OPENBLAS_LIBRARY AND WEFT_OPENBLAS_INCLUDE_DIR AND NOT TARGET weft::openblas)
    get_filename_component(directory "${WEFT_OPENBLAS_LIBRARY}" DIRECTORY)
    add_library(weft::openblas SHARED IMPORTED GLOBAL)
    set_target_properties(weft::openblas PROPERTIES
      IMPORTED_LOCATION "${WEFT_OPENBLAS_LIBRARY}"
      IMPORTED_SONAME libopenblas.so.0
      INTERFACE_INCLUDE_DIRECTORIES "${WEFT_OPENBLAS_INCLUDE_DIR}"
      INTERFACE_LINK_OPTIONS "LINKER:-rpath,${directory}")
  endif()
endfunction()

# fmt, xxHash, zlib, threads and, if asked for, OpenMP. A macro: find_package's targets must reach the caller.
macro(weft_find_dependencies with_openmp)
  find_package(fmt 9 REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(Threads REQUIRED)
  if(${with_openmp})
    find_package(OpenMP REQUIRED COMPONENTS CXX)
  endif()
  if(NOT TARGET weft::xxhash)
    find_path(WEFT_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
    find_library(WEFT_XXHASH_LIBRARY xxhash REQUIRED)
    mark_as_advanced(WEFT_XXHASH_INCLUDE_DIR WEFT_XXHASH_LIBRARY)
    add_library(weft::xxhash UNKNOWN IMPORTED GLOBAL)
    set_target_properties(weft::xxhash PROPERTIES
      IMPORTED_LOCATION "${WEFT_XXHASH_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${WEFT_XXHASH_INCLUDE_DIR}")
  endif()
endmacro()
