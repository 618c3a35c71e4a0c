/**
 * The kernels of the lessons, in CUDA C++, as PTX, and what the compiler says of each: `node scripts/ptx-kernels.mjs lessons` makes that, since no
 * page can compile.
 */
import type { CuKernel } from '../../../dist/src/cu/compiled-cu.js'
import { text as axpySource } from './axpy.cu?text'
import { text as axpyPtx } from './axpy.ptx?text'
import { text as bankConflictsSource } from './bank-conflicts.cu?text'
import { text as bankConflictsFixedSource } from './bank-conflicts.fixed.cu?text'
import { text as bankConflictsFixedPtx } from './bank-conflicts.fixed.ptx?text'
import { text as bankConflictsPtx } from './bank-conflicts.ptx?text'
import { text as coalescingSource } from './coalescing.cu?text'
import { text as coalescingFixedSource } from './coalescing.fixed.cu?text'
import { text as coalescingFixedPtx } from './coalescing.fixed.ptx?text'
import { text as coalescingPtx } from './coalescing.ptx?text'
import { text as divergenceSource } from './divergence.cu?text'
import { text as divergenceFixedSource } from './divergence.fixed.cu?text'
import { text as divergenceFixedPtx } from './divergence.fixed.ptx?text'
import { text as divergencePtx } from './divergence.ptx?text'
import { text as kernels } from './kernels.json?text'
import { text as outOfBoundsSource } from './out-of-bounds.cu?text'
import { text as outOfBoundsFixedSource } from './out-of-bounds.fixed.cu?text'
import { text as outOfBoundsFixedPtx } from './out-of-bounds.fixed.ptx?text'
import { text as outOfBoundsPtx } from './out-of-bounds.ptx?text'
import { text as sharedMemorySource } from './shared-memory.cu?text'
import { text as sharedMemoryFixedSource } from './shared-memory.fixed.cu?text'
import { text as sharedMemoryFixedPtx } from './shared-memory.fixed.ptx?text'
import { text as sharedMemoryPtx } from './shared-memory.ptx?text'
import { text as signatureSource } from './signature.cu?text'
import { text as signatureFixedSource } from './signature.fixed.cu?text'
import { text as signatureFixedPtx } from './signature.fixed.ptx?text'
import { text as signaturePtx } from './signature.ptx?text'

/** By the file from which a program imports `ptx`. */
export const SOURCES: Readonly<Record<string, string>> = {
  'axpy.cu': axpySource,
  'bank-conflicts.cu': bankConflictsSource,
  'bank-conflicts.fixed.cu': bankConflictsFixedSource,
  'coalescing.cu': coalescingSource,
  'coalescing.fixed.cu': coalescingFixedSource,
  'divergence.cu': divergenceSource,
  'divergence.fixed.cu': divergenceFixedSource,
  'out-of-bounds.cu': outOfBoundsSource,
  'out-of-bounds.fixed.cu': outOfBoundsFixedSource,
  'shared-memory.cu': sharedMemorySource,
  'shared-memory.fixed.cu': sharedMemoryFixedSource,
  'signature.cu': signatureSource,
  'signature.fixed.cu': signatureFixedSource,
}

/** What the worker of the page has of them. */
export const PTX: Readonly<Record<string, string>> = {
  'axpy.cu': axpyPtx,
  'bank-conflicts.cu': bankConflictsPtx,
  'bank-conflicts.fixed.cu': bankConflictsFixedPtx,
  'coalescing.cu': coalescingPtx,
  'coalescing.fixed.cu': coalescingFixedPtx,
  'divergence.cu': divergencePtx,
  'divergence.fixed.cu': divergenceFixedPtx,
  'out-of-bounds.cu': outOfBoundsPtx,
  'out-of-bounds.fixed.cu': outOfBoundsFixedPtx,
  'shared-memory.cu': sharedMemoryPtx,
  'shared-memory.fixed.cu': sharedMemoryFixedPtx,
  'signature.cu': signaturePtx,
  'signature.fixed.cu': signatureFixedPtx,
}

/** What the library's compiler says of the kernels of each file. */
export const KERNELS: Readonly<Record<string, readonly CuKernel[]>> = JSON.parse(kernels)
