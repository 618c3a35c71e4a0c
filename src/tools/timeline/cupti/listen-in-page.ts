/** The replacement of listen.ts in a page, where CUPTI can record nothing. */
import { stateError } from '../../../foundation/base/errors.js'

export const listen: typeof import('./listen.js').listen = () => {
  throw stateError('ERR_UNSUPPORTED', 'CUPTI cannot be had in a browser')
}
