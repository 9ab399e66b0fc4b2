# Compiles data/gpt2/merges.txt into the folder `data`.
set(merges ${PROJECT_SOURCE_DIR}/data/gpt2/merges.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${merges})
file(READ ${merges} OLM2_GPT2_MERGES)
configure_file(${PROJECT_SOURCE_DIR}/data/gpt2_merges.cpp.in
               ${PROJECT_BINARY_DIR}/data/gpt2_merges.cpp @ONLY)
target_sources(data PRIVATE ${PROJECT_BINARY_DIR}/data/gpt2_merges.cpp)
