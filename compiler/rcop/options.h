// Switches of the plugin: -mllvm -rcop-ia=false, or tutticc --rcop=no-ia.
#ifndef TUTTI_RCOP_OPTIONS_H
#define TUTTI_RCOP_OPTIONS_H

#include "llvm/Support/CommandLine.h"

namespace rcop {

// Proofs that memory is private.
extern llvm::cl::opt<bool> use_proofs;
// Notes of affine stores leave loops.
extern llvm::cl::opt<bool> use_gathering;
// Notes that an earlier one covers go away.
extern llvm::cl::opt<bool> use_redundancy;
// Loads and stores are checked by code that is put in before them (--dsm=udsm).
extern llvm::cl::opt<bool> checks_loads;
// Plain stores make no notes: nothing but a test of what finds them has a use for that.
extern llvm::cl::opt<bool> breaks_stores;

} // namespace rcop

#endif
