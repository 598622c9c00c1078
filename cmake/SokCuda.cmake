# Decides whether there is a CUDA back end, and whether it is built here. Sets SOK_HAS_CUDA, and
# SOK_CUDA_SOURCES or, where there is none, SOK_WHY_NO_CUDA. ops/device is the back end's logic and compiles without CUDA; ops/cuda
# holds its .cu files.

# Ends this file without CUDA, or the build where CUDA was asked for. `detail` is what to do about
# it, or what a tool said.
macro(sok_no_cuda why detail)
  if(SOK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SOK_CUDA=ON, but ${why}. ${detail}\n"
      "SOK_CUDA=AUTO or SOK_CUDA=OFF build the CPU back end.")
  endif()
  message(STATUS "CUDA: no, ${why} (CPU back end only)")
  set(SOK_HAS_CUDA OFF)
  set(SOK_CUDA_SOURCES)
  set(SOK_WHY_NO_CUDA "${why}")
  return()
endmacro()

if(NOT SOK_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SOK_CUDA must be AUTO, ON or OFF, got '${SOK_CUDA}'")
endif()
if(SOK_CUDA STREQUAL "OFF")
  sok_no_cuda("SOK_CUDA was OFF" "")
endif()
set(SOK_CUDA_LIBRARY "" CACHE FILEPATH "The libsok_cuda.so of another build, instead of compiling one")
if(SOK_CUDA_LIBRARY)
  message(STATUS "CUDA: yes, ${SOK_CUDA_LIBRARY}")
  set(SOK_HAS_CUDA ON)
  set(SOK_WHY_NO_CUDA "SOK_CUDA_LIBRARY is that of another build")  # for tests and benchmarks
  return()
endif()
file(GLOB SOK_CUDA_SOURCES CONFIGURE_DEPENDS ops/cuda/*.cu)
if(NOT SOK_CUDA_SOURCES)
  sok_no_cuda("this source tree has no CUDA back end" "There are no .cu files in ops/cuda.")
endif()

# A compiler that cannot build a program is none: its host compiler may be too new for it, or a part
# of the toolkit missing.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if("${CMAKE_CUDA_COMPILER}" MATCHES "NOTFOUND")
    unset(CMAKE_CUDA_COMPILER CACHE)  # the next time may find one
    find_program(nvcc NAMES "$ENV{CUDACXX}" nvcc NO_CACHE)
  endif()
  if(nvcc)
    sok_no_cuda("the CUDA compiler ${nvcc} cannot build a program"
      "What it says is in ${CMAKE_BINARY_DIR}/CMakeFiles/CheckCUDA/CMakeFiles.")
  endif()
  sok_no_cuda("there is no CUDA compiler" "Set CUDACXX to nvcc.")
endif()

# Machine code for Volta (as long as nvcc knows it), Turing, Ampere and Hopper, which runs on Ada,
# too, and intermediate code that newer GPUs' drivers compile. Each one costs compile time: for one
# GPU, say -DCMAKE_CUDA_ARCHITECTURES=90 (or native), or set the environment variable CUDAARCHS.
# CMake itself reads that variable only in a build tree that has had no CUDA before.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "CUDA architectures")
endif()
set(is_architecture_given OFF)
if(DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(is_architecture_given ON)
endif()
# A toolkit alone does not say that its code will be run, and to compile it takes minutes.
if(SOK_CUDA STREQUAL "AUTO" AND NOT is_architecture_given AND NOT EXISTS /dev/nvidiactl)
  sok_no_cuda("this machine has no GPU" "")
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  sok_no_cuda("CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: it takes 12.0" "Set CUDACXX to a newer nvcc.")
endif()
if(NOT is_architecture_given)
  set(architectures 75-real 80-real 90)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
    list(PREPEND architectures 70-real)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "CUDA architectures" FORCE)
endif()

include(CheckSourceCompiles)
check_source_compiles(CUDA
  "#include <cuda.h>\n#include <cub/version.cuh>\n#include <thrust/version.h>\nint main() {}"
  SOK_CUDA_HAS_HEADERS)
find_package(CUDAToolkit QUIET)
if(NOT SOK_CUDA_HAS_HEADERS OR NOT TARGET CUDA::cudart_static)
  unset(SOK_CUDA_HAS_HEADERS CACHE)  # the next time they may be there
  sok_no_cuda("the CUDA toolkit is not complete: it lacks the runtime or the headers of CUB and Thrust"
    "Install the whole toolkit, or set CUDACXX to the nvcc of one that is whole.")
endif()
set(SOK_HAS_CUDA ON)
message(STATUS "CUDA: yes, ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
