/** What the driver makes for a thread is given back when the thread has ended: no function that makes something is forgotten. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAKERS } from '../../../src/cuda/libcuda/owned-handles.js'
import { SIGNATURES } from '../../../src/cuda/libcuda/signatures.js'

/** Words in the names of functions that make something, or say where what was made is. */
const MAKES = /Create|Alloc|Load|Open|Instantiate|Import|Register|EndCapture|Retain|GenerateDesc|AddNode/
/** Those of them without a row, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  cuDevicePrimaryCtxRetain: 'the context is for all threads, as long as the process lives',
  cuDevResourceGenerateDesc: 'CUDA has nothing that destroys a description',
  cuGraphAddNode_v2: 'a node goes with its graph',
  cuGraphConditionalHandleCreate: 'it goes with its graph',
  cuIpcOpenEventHandle: 'it gets a struct, which calls of the table do not pass: cuda-driver.ts adds the event',
  cuIpcOpenMemHandle_v2: 'it gets a struct, which calls of the table do not pass: cuda-sharing.ts adds the mapping',
}

test('X5 each function of the driver that makes something has a row in the table of threads that end, or a reason', () => {
  const making = Object.keys(SIGNATURES).filter((name) => MAKES.test(name) && !/Unload|Unregister/.test(name))
  assert.deepEqual([...Object.keys(MAKERS), ...Object.keys(EXCEPTIONS)].sort(), making.sort())
})

test('X5 a function of the driver that writes a handle has a name which that table knows', () => {
  // Handles that are written where the first parameter points: CUstream *phStream.
  const written = Object.entries(SIGNATURES).filter(([, parameters]) =>
    /^CU(stream|event|graph|graphExec|module|memoryPool|greenCtx) \*p?h?\w+,/.test(parameters),
  )
  const unknown = written.map(([name]) => name).filter((name) => !MAKES.test(name) && !name.includes('Get'))
  assert.deepEqual(unknown, [])
})
