/** cuRAND as a C library: its functions, numbers and generators. A test compares them with curand.h. */

import type { Device } from '../../core/device.js'
import type { Event } from '../../core/event.js'
import type { Stream } from '../../core/stream.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { HandleLibrary, LibraryHandle } from '../handle-library.js'

const NORMAL = (type: 'float' | 'double'): string =>
  `curandGenerator_t generator, ${type} *outputPtr, size_t n, ${type} mean, ${type} stddev`

export const CURAND_SIGNATURES = {
  curandCreateGenerator: 'curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t rng_type)',
  curandDestroyGenerator: 'curandStatus_t curandDestroyGenerator(curandGenerator_t generator)',
  curandSetStream: 'curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream)',
  curandSetPseudoRandomGeneratorSeed:
    'curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed)',
  curandSetGeneratorOffset:
    'curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset)',
  curandSetGeneratorOrdering:
    'curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t order)',
  curandGenerate: 'curandStatus_t curandGenerate(curandGenerator_t generator, unsigned int *outputPtr, size_t num)',
  curandGenerateUniform:
    'curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *outputPtr, size_t num)',
  curandGenerateUniformDouble:
    'curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *outputPtr, size_t num)',
  curandGenerateNormal: `curandStatus_t curandGenerateNormal(${NORMAL('float')})`,
  curandGenerateNormalDouble: `curandStatus_t curandGenerateNormalDouble(${NORMAL('double')})`,
  curandGenerateLogNormal: `curandStatus_t curandGenerateLogNormal(${NORMAL('float')})`,
  curandGenerateLogNormalDouble: `curandStatus_t curandGenerateLogNormalDouble(${NORMAL('double')})`,
} as const satisfies Readonly<Record<string, string>>

export type CurandFunction = keyof typeof CURAND_SIGNATURES

/** curandStatus_t. */
export const CURAND_STATUS: Readonly<Record<string, number>> = {
  CURAND_STATUS_SUCCESS: 0,
  CURAND_STATUS_VERSION_MISMATCH: 100,
  CURAND_STATUS_NOT_INITIALIZED: 101,
  CURAND_STATUS_ALLOCATION_FAILED: 102,
  CURAND_STATUS_TYPE_ERROR: 103,
  CURAND_STATUS_OUT_OF_RANGE: 104,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE: 105,
  CURAND_STATUS_DOUBLE_PRECISION_REQUIRED: 106,
  CURAND_STATUS_LAUNCH_FAILURE: 201,
  CURAND_STATUS_PREEXISTING_FAILURE: 202,
  CURAND_STATUS_INITIALIZATION_FAILED: 203,
  CURAND_STATUS_ARCH_MISMATCH: 204,
  CURAND_STATUS_INTERNAL_ERROR: 999,
}

/** CURAND_RNG_PSEUDO_PHILOX4_32_10 */
export const PHILOX4_32_10 = 161
/** CURAND_ORDERING_PSEUDO_LEGACY: it remains the same in all releases. */
export const ORDERING_LEGACY = 103

export const curand = new HandleLibrary({
  variable: VARIABLES.curand,
  signatures: CURAND_SIGNATURES,
  results: CURAND_STATUS,
  explanations: {
    102: 'The device or the host is out of memory: close what is no longer used',
    201: 'The work could not be queued: the GPU may have faulted',
    202: 'An earlier kernel had failed: the GPU has faulted',
    203: 'CUDA is not started, or the device has no room left for cuRAND',
    204: 'This device does not support the generator',
  },
  made: { curandCreateGenerator: ['curandDestroyGenerator', 0] },
})

/** A generator of cuRAND, with its seed. The device has its state, which each call changes. */
export class GeneratorHandle extends LibraryHandle {
  /** The event behind the latest call, which the next one comes after. */
  latest: Event | undefined
  /** The number of the stream of that call. */
  latestOn = -1

  constructor(device: Device, seed: number, offset: number) {
    super(curand, device, {
      make() {
        const { memory } = curand
        curand.call('curandCreateGenerator', memory.address, PHILOX4_32_10)
        const generator = memory.pointerAt(0)
        try {
          curand.call('curandSetGeneratorOrdering', generator, ORDERING_LEGACY)
          curand.call('curandSetPseudoRandomGeneratorSeed', generator, seed)
          curand.call('curandSetGeneratorOffset', generator, offset)
        } catch (error) {
          curand.call('curandDestroyGenerator', generator)
          throw error
        }
        return generator
      },
      destroy: (generator) => curand.call('curandDestroyGenerator', generator),
    })
  }

  /** Lets the next call on the stream come after the latest one, wherever that is. */
  waitOn(stream: Stream): void {
    if (this.latest !== undefined && this.latestOn !== stream.serial) stream.wait(this.latest)
  }

  /** A call has been queued on the stream. */
  queuedOn(stream: Stream): void {
    this.latest = this.latest === undefined ? stream.record() : stream.record(this.latest)
    this.latestOn = stream.serial
  }

  override destroy(): void {
    this.latest?.close()
    super.destroy()
  }
}
