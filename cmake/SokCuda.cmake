# Decides whether the CUDA back end is built. Sets SOK_HAS_CUDA and SOK_CUDA_SOURCES.
# The back end is the .cu files beside the .cc files they accelerate, and ops/cuda/.

set(SOK_HAS_CUDA OFF)
set(SOK_CUDA_SOURCES)
if(NOT SOK_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SOK_CUDA must be AUTO, ON or OFF, got '${SOK_CUDA}'")
endif()
if(SOK_CUDA STREQUAL "OFF")
  return()
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS
  ops/base/*.cu ops/table/*.cu ops/lookup/*.cu ops/cuda/*.cu)
if(NOT cuda_sources)
  if(SOK_CUDA STREQUAL "ON")
    message(FATAL_ERROR
      "SOK_CUDA=ON, but this source tree has no CUDA back end: there are no .cu files in ops/. "
      "Use SOK_CUDA=AUTO or SOK_CUDA=OFF to build the CPU back end.")
  endif()
  message(STATUS "CUDA: no, this source tree has no CUDA back end (CPU back end only)")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SOK_CUDA STREQUAL "ON")
    message(FATAL_ERROR
      "SOK_CUDA=ON, but CMake finds no CUDA compiler. Set CUDACXX to nvcc, or use SOK_CUDA=AUTO "
      "or SOK_CUDA=OFF to build the CPU back end.")
  endif()
  message(STATUS "CUDA: no, there is no CUDA compiler (CPU back end only)")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES all-major)
endif()
set(CMAKE_CUDA_STANDARD 17)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(SOK_HAS_CUDA ON)
set(SOK_CUDA_SOURCES ${cuda_sources})
message(STATUS "CUDA: yes, ${CMAKE_CUDA_COMPILER}")
