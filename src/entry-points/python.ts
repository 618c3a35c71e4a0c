/** cuda-streams/python: Python and its GPU libraries in this process. */
import '../core/shortcuts.js'

export { PythonError } from '../libraries/python/interpreter.js'
export { Python } from '../libraries/python/python.js'
export {
  type PythonArgument,
  type PythonArray,
  type PythonKeywords,
  PythonObject,
  type PythonValue,
} from '../libraries/python/python-object.js'
