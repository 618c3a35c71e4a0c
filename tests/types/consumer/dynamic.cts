/** A program of CommonJS that every compiler takes: it imports types with their resolution mode, and values by import(). */
import type { DeviceBuffer } from 'cuda-streams' with { 'resolution-mode': 'import' }

async function program(): Promise<DeviceBuffer> {
  const { Stream } = await import('cuda-streams')
  const stream = new Stream()
  return stream.bufferFrom(Float32Array.of(1, 2, 3))
}

export = program
