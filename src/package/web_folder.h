// Models as folders that a browser runs: what `xyntra compile --backend wgsl --web DIR` writes.
//
//   manifest.json      values, arena, kernels and steps; sizes as numbers or as the text of Dim::to_string
//   shaders/k0.wgsl …  one module per kernel
//   weights.bin        constants, laid out as kernels read them
//   xyntra.js, .d.ts   what runs it: a module that needs nothing else
//
// docs/browser.md tells how a page uses it.
#pragma once

#include "compiler/pipeline.h"
#include "types/dim.h"

namespace xyntra {

struct WebOptions {
  CompileOptions compile;  // a target that is not of WebGPU becomes `webgpu`
  SymbolRanges ranges;  // sizes that it may be run at; those not named are free
  int threads = 0;
};

struct WebFigures {
  std::size_t kernels = 0, launches = 0, constants = 0, weight_bytes = 0, shader_bytes = 0;
};

// The folder is made where there is none; one that holds something else is left alone. The manifest comes last, so a
// folder that was not finished does not load. Unsupported for what runs on the host or computes with what shaders lack.
Result<WebFigures> write_web_folder(const Module& model, const std::string& folder,
                                    const WebOptions& options);

}  // namespace xyntra
