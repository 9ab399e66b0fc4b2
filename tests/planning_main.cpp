// Main of the tests that plan: as gtest's own, and a solver process where it is started as one.
#include <gtest/gtest.h>

#include "planner/solver_process.h"

int main(int argc, char** argv) {
  olm2::serve_solver(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
