/** Compiles a libcuda that does nothing, over which the library's own share of each call is measured. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SIGNATURES } from '../src/cuda/libcuda/signatures.js'
import { root } from './root.js'

/** The environment in which a libcuda that does nothing is taken for the NVIDIA driver. */
export function withoutOperation(scratch: string): NodeJS.ProcessEnv {
  const library = join(scratch, 'libcuda.so.1')
  const source = join(root, 'bench', 'no-op-libcuda.c')
  const text = readFileSync(source, 'utf8')
  const others = Object.keys(SIGNATURES).filter((name) => !new RegExp(`\\b${name}\\(`).test(text))
  const rest = join(scratch, 'others.c')
  writeFileSync(rest, others.map((name) => `int ${name}(void) { return 0; }\n`).join(''))
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, source, rest])
  return { ...process.env, LD_LIBRARY_PATH: scratch, CUDA_STREAMS_DRIVER: 'cuda' }
}
