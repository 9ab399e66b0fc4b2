// How a program ends: 0 done, 1 a request that cannot be met, 2 a wrong command line.
#pragma once

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "core/error.h"

namespace olm2 {

// Runs `body` and writes out what it printed; a failure becomes one message on stderr and exit
// status 1.
template <typename Body>
int run_program(std::string_view name, const Body& body) {
  std::string message;
  try {
    body();
    std::cout.flush();
    if (std::cout && std::fflush(stdout) == 0) return 0;
    message = "standard output could not be written; is the disk full?";
  } catch (const Error& error) {
    message = error.what();
  } catch (const std::bad_alloc&) {
    message = "out of memory; lower the budget or the sizes";
  } catch (const std::exception& error) {
    message = std::string(error.what()) + " (please report this)";
  }
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(name.size()), name.data(), message.c_str());
  return 1;
}

}  // namespace olm2

// Parses a command line with CLI11 (`app`); --help and --version end with 0, mistakes with 2.
#define CLI11_PARSE_OR_EXIT_2(app, argc, argv) \
  do {                                         \
    try {                                      \
      (app).parse((argc), (argv));             \
    } catch (const CLI::ParseError& error) {   \
      return (app).exit(error) == 0 ? 0 : 2;   \
    }                                          \
  } while (false)
