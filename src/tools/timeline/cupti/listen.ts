/** Starts listening to CUPTI for recordings. */
import type { EventWriter } from '../event-writer.js'
import { Activities } from './activities.js'
import { ForeignWork } from './foreign-work.js'

export interface Listening {
  /** The share of one recording, which ends with the recording; `device` is one in use. */
  join(writer: EventWriter, device: number): ForeignWork
  /** Stops listening, for a recording that does not begin. */
  close(): void
}

/** @param limit The most records that are kept */
export function listen(limit: number): Listening {
  const activities = Activities.open(limit)
  return { join: (writer, device) => new ForeignWork(activities, writer, device), close: () => activities.close() }
}
