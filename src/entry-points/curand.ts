/** cuda-streams/curand: random numbers on streams. */
import './shortcuts.js'

export { LibraryError } from './base/errors.js'
export {
  type NormalOptions,
  type NumberOptions,
  RandomGenerator,
  type RandomOptions,
} from './libraries/curand/random-generator.js'
