# Finds nanobind in the Python environment that builds (scikit-build-core puts it on the path).

if(NOT TARGET Python::Module)
  message(FATAL_ERROR
    "Python ${Python_VERSION} at ${Python_EXECUTABLE} has no headers (on Debian: the python3-dev "
    "package). They are needed for sok_compat.engine; -DSOK_ENGINE=OFF builds without it.")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  RESULT_VARIABLE failed
  OUTPUT_VARIABLE nanobind_ROOT
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR
    "nanobind is not installed for ${Python_EXECUTABLE}: pip install nanobind, or build without "
    "the module: -DSOK_ENGINE=OFF.")
endif()
# Not cached: an isolated build has it in another temporary directory each time.
unset(nanobind_DIR CACHE)
find_package(nanobind CONFIG REQUIRED PATHS ${nanobind_ROOT} NO_DEFAULT_PATH)
