/** What a channel of `node:diagnostics_channel` tells. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'

/** Listens on a channel for as long as the function runs. */
export async function heard<M>(channel: string, fn: () => Promise<void>): Promise<M[]> {
  const messages: M[] = []
  const listener = (message: unknown): void => void messages.push(message as M)
  subscribe(channel, listener)
  try {
    await fn()
  } finally {
    unsubscribe(channel, listener)
  }
  return messages
}
