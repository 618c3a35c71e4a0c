/** The ledger of driver functions and the tables of numbers, each row against cuda.h where a toolkit is installed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NEWER_FUNCTIONS, SIGNATURES } from '../../../src/cuda/libcuda/signatures.js'
import { CUresult, cudaResultName } from '../../../src/foundation/driver/cuda-results.js'
import { DEVICE_ATTRIBUTES } from '../../../src/foundation/driver/device-attributes.js'
import { EventFlag, ExternalFlag, StreamFlag } from '../../../src/foundation/driver/driver-constants.js'
import { shapeOf } from '../../../src/foundation/native/c-functions.js'
import { findHeader } from '../../helpers/cuda-toolkit.js'
import {
  type CudaHeader,
  type Parameter,
  type Prototype,
  parsePrototype,
  readCudaHeader,
  written,
} from './cuda-header.js'

/** Functions taken by an old name although the header defines the plain name as a newer one, and why. */
const DELIBERATELY_OLD: Readonly<Record<string, string>> = {
  cuMemcpyBatchAsync: 'cuMemcpyBatchAsync_v2 came with CUDA 13.0, and this one stays for programs of 12.8',
  cuEventElapsedTime: 'cuEventElapsedTime_v2 came with CUDA 12.8, and the library takes drivers from 12.5 on',
}

/** Functions whose parameters have other names in other headers: only the types are compared. */
const RENAMED_PARAMETERS = ['cuDevSmResourceSplitByCount']

/** The CUDA_VERSION of '13.2' is 13020. */
function numberOf(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return 1000 * major + 10 * minor
}

/** The CUDA_VERSION whose results and attributes the tables have. */
const TABLES_ARE_OF = 13_050

const found = findHeader('cuda.h')
const skip = typeof found === 'object' ? `no CUDA toolkit here: tried ${found.tried.join(', ')}` : false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const rows = Object.entries(SIGNATURES).map(([name, parameters]) => [name, `CUresult ${name}(${parameters})`] as const)

/** The types of cuda.h that are integers. */
const WORDS = ['CUdeviceptr', 'CUtexObject', 'CUsurfObject', 'cuuint32_t', 'cuuint64_t']

/** How many bytes of a struct C passes by value; undefined for what goes in one word, as its header says. */
function structOf({ type }: Parameter, header: CudaHeader): number | undefined {
  const isWord =
    type.endsWith('*') || header.isHandle(type) || header.isEnum(type) || type === 'size_t' || WORDS.includes(type)
  // Smaller ones go in a register of their own, and callees look at no more than their bits.
  if (isWord || /^(unsigned )?(int|char|short|long long)$/.test(type) || type === 'CUdevice') return undefined
  if (type === 'CUipcEventHandle' || type === 'CUipcMemHandle') return header.define('CU_IPC_HANDLE_SIZE')
  throw new Error(`this test has no rule how '${type}' is passed`)
}

/** CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS is canUse64BitStreamMemOps. */
function camelCase(name: string): string {
  const words = name.toLowerCase().split('_')
  return words.map((word, index) => (index === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join('')
}

describe('the ledger of driver functions', () => {
  it('names each function by its key', () => {
    for (const [name, c] of rows) assert.equal(parsePrototype(c).name, name)
  })

  it('has a call of the native layer for each row', () => {
    for (const [name, parameters] of Object.entries(SIGNATURES)) assert.ok(shapeOf(parameters), name)
  })
})

describe('against cuda.h', { skip }, () => {
  if (typeof found === 'object') return
  const header = readCudaHeader(found)
  console.log(`${found}, CUDA ${header.version}: ${header.current.size} functions`)

  it('reads the header', () => {
    assert.ok(header.version >= 12_000, `version ${header.version}`)
    assert.ok(header.current.size > 300, `${header.current.size} functions`)
    assert.equal(header.renamed.get('cuStreamDestroy'), 'cuStreamDestroy_v2')
    assert.equal(header.renamed.get('cuStreamBeginCapture'), 'cuStreamBeginCapture_v2')
  })

  for (const [name, c] of rows) {
    const skip = name.startsWith('cuProfiler') && !header.hasProfiler ? 'no cudaProfiler.h beside cuda.h' : false
    if (typeof skip === 'string') console.log(`skipped: ${name}: ${skip}`)
    it(name, { skip }, () => {
      const old = name in DELIBERATELY_OLD
      const renamed = header.renamed.get(name)
      if (!old) assert.equal(renamed, undefined, `the header's ${name} is exported as ${renamed}: take that`)
      const prototype = header[old && renamed !== undefined ? 'old' : 'current'].get(name)
      const since = Object.entries(NEWER_FUNCTIONS).find(([newer]) => newer === name)?.[1]
      if (since !== undefined && header.version < numberOf(since)) {
        assert.equal(prototype, undefined, `cuda.h ${header.version} has ${name} already, and the table says ${since}`)
        return
      }
      assert.ok(prototype !== undefined, `cuda.h ${header.version} has no function that is exported as ${name}`)
      if (RENAMED_PARAMETERS.includes(name)) {
        const typesOf = ({ parameters }: Prototype): readonly string[] => parameters.map(({ type }) => type)
        assert.deepEqual(typesOf(parsePrototype(c)), typesOf(prototype))
      } else assert.equal(written(parsePrototype(c)), written(prototype))
      const structs = prototype.parameters.filter((parameter) => structOf(parameter, header) !== undefined)
      assert.equal(structs.length, shapeOf(SIGNATURES[name as keyof typeof SIGNATURES]) === 'ipcHandle' ? 1 : 0)
    })
  }

  it('CUipcEventHandle and CUipcMemHandle are 64 bytes', () => {
    assert.equal(header.define('CU_IPC_HANDLE_SIZE'), 64)
  })

  it('every CUresult has its name', (context) => {
    const results = header.enumerators('cudaError_enum')
    for (const [name, value] of results) {
      const isNew = cudaResultName(value) === `CUDA_ERROR_${value}` && header.version > TABLES_ARE_OF
      if (isNew) context.diagnostic(`new in this header: ${name} = ${value}`)
      else assert.equal(cudaResultName(value), name)
    }
    if (header.version !== TABLES_ARE_OF) return
    const known = new Set(results.values())
    for (let value = 0; value < 1100; value += 1) {
      if (!known.has(value)) assert.equal(cudaResultName(value), `CUDA_ERROR_${value}`)
    }
  })

  it('the results that the code names have the right numbers', () => {
    const results = header.enumerators('cudaError_enum')
    for (const [name, value] of Object.entries(CUresult)) {
      const theirs = name === 'SUCCESS' ? 'CUDA_SUCCESS' : `CUDA_ERROR_${name}`
      assert.equal(value, results.get(theirs), theirs)
    }
  })

  it('every device attribute is there, and no other', (context) => {
    const theirs = [...header.enumerators('CUdevice_attribute_enum')].filter(
      ([name]) => name !== 'CU_DEVICE_ATTRIBUTE_MAX',
    )
    const named = new Map(theirs.map(([name, value]) => [camelCase(name.replace('CU_DEVICE_ATTRIBUTE_', '')), value]))
    for (const [name, value] of Object.entries(DEVICE_ATTRIBUTES)) {
      // A header may be older than the table.
      if (named.has(name) || value <= Math.max(...named.values())) assert.equal(named.get(name), value, name)
    }
    const ours = new Set<number>(Object.values(DEVICE_ATTRIBUTES))
    const missing = theirs.filter(([, value]) => !ours.has(value)).map(([name, value]) => `${name} = ${value}`)
    if (header.version <= TABLES_ARE_OF) assert.deepEqual(missing, [])
    for (const entry of missing) context.diagnostic(`new in this header: ${entry}`)
  })

  it('the flags have the right numbers', () => {
    const flags = (tag: string): ReadonlyMap<string, number> => header.enumerators(tag)
    assert.equal(flags('CUstream_flags_enum').get('CU_STREAM_NON_BLOCKING'), StreamFlag.NON_BLOCKING)
    for (const [name, value] of Object.entries(EventFlag)) {
      assert.equal(flags('CUevent_flags_enum').get(`CU_EVENT_${name}`), value, name)
    }
    assert.equal(flags('CUevent_record_flags_enum').get('CU_EVENT_RECORD_EXTERNAL'), ExternalFlag.EXTERNAL)
    assert.equal(flags('CUevent_wait_flags_enum').get('CU_EVENT_WAIT_EXTERNAL'), ExternalFlag.EXTERNAL)
  })
})
