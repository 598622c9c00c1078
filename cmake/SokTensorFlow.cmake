# Defines the imported target sok_tensorflow: headers, flags and framework library of the TensorFlow
# that Python uses, found without importing it. Sets SOK_TENSORFLOW_VERSION.

set(SOK_TENSORFLOW_DIR "" CACHE PATH
    "Package directory of the TensorFlow to build against; empty: the one installed for Python")

execute_process(
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tensorflow_install.py
          --directory "${SOK_TENSORFLOW_DIR}"
  RESULT_VARIABLE failed
  OUTPUT_VARIABLE found
  ERROR_VARIABLE reason
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR
    "${reason}\nThe op library is built against the TensorFlow it will run with. Install it first "
    "(pip install tensorflow-cpu==2.15.1), name it with -DSOK_TENSORFLOW_DIR=<.../tensorflow>, or "
    "build without the op library: -DSOK_TENSORFLOW=OFF.")
endif()
string(REPLACE "\n" ";" found "${found}")
list(GET found 0 tensorflow_dir)
list(GET found 1 SOK_TENSORFLOW_VERSION)
list(GET found 2 framework_library)
list(GET found 3 uses_cxx11_abi)
message(STATUS "TensorFlow ${SOK_TENSORFLOW_VERSION}: ${tensorflow_dir}")

# Another TensorFlow in the same place configures anew.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${tensorflow_dir}/include/tensorflow/core/public/version.h)

add_library(sok_tensorflow SHARED IMPORTED)
set_target_properties(sok_tensorflow PROPERTIES
  IMPORTED_LOCATION ${framework_library}
  # farmhash.h, which fingerprint.h includes, is TensorFlow's, but not where its own headers are.
  INTERFACE_INCLUDE_DIRECTORIES
    "${tensorflow_dir}/include;${tensorflow_dir}/include/external/farmhash_archive/src"
  INTERFACE_COMPILE_FEATURES cxx_std_17
  INTERFACE_COMPILE_DEFINITIONS
    "_GLIBCXX_USE_CXX11_ABI=${uses_cxx11_abi};EIGEN_MAX_ALIGN_BYTES=64")
