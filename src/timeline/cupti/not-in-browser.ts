/** What listen.ts exports, in a browser: there is no GPU whose work could be told of. */
import { stateError } from '../../base/errors.js'

export const listen: typeof import('./listen.js').listen = () => {
  throw stateError('ERR_UNSUPPORTED', 'CUPTI is not available in a browser')
}
