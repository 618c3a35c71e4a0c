/**
 * The kinds of products that a device has computed before. For one of a new kind cuBLAS may load code, and loading may wait
 * for the whole device.
 */
import type { Device } from '../../device.js'
import type { UsedMemory } from '../library-memory.js'
import type { GemmFunction } from './gemm-call.js'
import type { GemmShape, Layout } from './gemm-shape.js'

const MOST_KNOWN = 4096
/** cuBLAS tells no more of addresses apart. */
const LARGEST_ALIGNMENT = 256

const known = new WeakMap<Device, Set<string>>()

/** All by which cuBLAS may pick its kernels: two products of one kind are computed by the same code. */
export function kindOf(name: GemmFunction, shape: GemmShape, memory: readonly UsedMemory[]): string {
  const { type, m, n, k, transposeA, transposeB, alpha, beta, order, batchCount, a, b, c } = shape
  const [first, second, result, workspace] = memory
  const sizes = `${name} ${type} ${order} ${m} ${n} ${k} ${transposeA} ${transposeB} ${batchCount}`
  const places = `${placeOf(a, first)} ${placeOf(b, second)} ${placeOf(c, result)} ${workspace?.byteLength}`
  return `${sizes} ${places} ${alpha === 0} ${beta === 0 || beta === 1 ? beta : 'other'}`
}

export function isKnown(device: Device, kind: string): boolean {
  return known.get(device)?.has(kind) ?? false
}

/** It has been queued to be computed: its code is loaded. */
export function learn(device: Device, kind: string): void {
  const kinds = known.get(device) ?? new Set()
  known.set(device, kinds)
  if (kinds.size >= MOST_KNOWN) kinds.clear()
  kinds.add(kind)
}

function placeOf({ leading, stride }: Layout, memory: UsedMemory | undefined): string {
  const beyond = (memory?.pointer ?? 0) % LARGEST_ALIGNMENT
  // The lowest bit that is set: the largest power of two that divides the address.
  return `${leading}+${stride}@${beyond & -beyond}`
}
