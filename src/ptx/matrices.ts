import type { Decoded } from './decoding.js'
import type { Gathering } from './warp-operations.js'

export interface MatrixMemory {
  read(lane: number, address: number, bytes: number, decoded: Decoded): number
  write(lane: number, address: number, bytes: number, value: number, decoded: Decoded): void
}

export const MATRIX_OPERATIONS: Readonly<Record<string, (gathering: Gathering, memory: MatrixMemory) => void>> = {}
