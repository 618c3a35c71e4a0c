/** cuda-streams/curand: random numbers on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export {
  type NormalOptions,
  type NumberOptions,
  RandomGenerator,
  type RandomOptions,
} from '../libraries/curand/random-generator.js'
