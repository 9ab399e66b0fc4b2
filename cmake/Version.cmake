# What --version says.  Included by CMakeLists.txt: adds core/version.cpp.in, filled in, to `core`.
# The commit is looked up at every build (cmake -P, some milliseconds); the file is written, and
# compiled, only when something changed.
if(CMAKE_SCRIPT_MODE_FILE)
  set(COMMIT "unknown commit")
  find_program(GIT git)
  if(GIT)
    # A prefix means that we lie inside of somebody else's repository.
    execute_process(COMMAND ${GIT} rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE_DIR}
                    OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE
                    ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND prefix STREQUAL "")
      execute_process(COMMAND ${GIT} --no-optional-locks describe --always --abbrev=12 --exclude=*
                              --dirty=+changes
                      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE described
                      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed AND NOT described STREQUAL "")
        set(COMMIT "commit ${described}")
      endif()
    endif()
  endif()
  configure_file(${SOURCE_DIR}/core/version.cpp.in ${OUTPUT} @ONLY)  # Leaves an equal file alone.
  return()
endif()

function(olm2_library_text result name found version)
  if(${found})
    string(STRIP "${name} ${${version}}" text)
  else()
    set(text "no ${name}")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()
file(STRINGS ${GLPK_INCLUDE_DIR}/glpk.h glpk_lines REGEX "define GLP_(MAJOR|MINOR)_VERSION")
string(REGEX REPLACE ".*MAJOR_VERSION +([0-9]+).*MINOR_VERSION +([0-9]+).*" "\\1.\\2" glpk_version
       "${glpk_lines}")
olm2_library_text(onednn_text oneDNN dnnl_FOUND dnnl_VERSION)
olm2_library_text(openmp_text OpenMP OpenMP_CXX_FOUND OpenMP_CXX_VERSION)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(compiler gcc)
else()
  string(TOLOWER ${CMAKE_CXX_COMPILER_ID} compiler)
endif()

set(version_source ${CMAKE_BINARY_DIR}/generated/version.cpp)
add_custom_target(olm2_version
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D OUTPUT=${version_source}
          -D PROJECT_VERSION=${PROJECT_VERSION} -D BUILD_TYPE=$<CONFIG>
          -D "COMPILER=${compiler} ${CMAKE_CXX_COMPILER_VERSION}"
          -D "LIBRARIES=${onednn_text}, ${openmp_text}, GLPK ${glpk_version}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${version_source} COMMENT "" VERBATIM)
target_sources(core PRIVATE ${version_source})
add_dependencies(core olm2_version)
