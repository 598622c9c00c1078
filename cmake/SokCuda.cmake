# Decides whether the CUDA back end is built. Sets SOK_HAS_CUDA and SOK_CUDA_SOURCES.
# ops/device is the back end's logic and compiles without CUDA; ops/cuda holds its .cu files.

set(SOK_HAS_CUDA OFF)
set(SOK_CUDA_SOURCES)
if(NOT SOK_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SOK_CUDA must be AUTO, ON or OFF, got '${SOK_CUDA}'")
endif()
if(SOK_CUDA STREQUAL "OFF")
  return()
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS ops/cuda/*.cu)
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

# Machine code for Turing, Ampere and Hopper, which runs on Ada, too, and intermediate code that
# newer GPUs' drivers compile. Each one costs compile time: for one GPU, say
# -DCMAKE_CUDA_ARCHITECTURES=90 (or native).
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(SOK_HAS_CUDA ON)
set(SOK_CUDA_SOURCES ${cuda_sources})
message(STATUS "CUDA: yes, ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
