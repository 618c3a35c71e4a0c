/** Takes the place of the driver's IdleDevices. The test decides when a device has nothing to do. */
export function idleWhen(isIdle: () => boolean) {
  const waiting: (() => void)[] = []
  const makeAll = (): void => {
    for (const call of waiting.splice(0)) call()
  }
  const look = (): void => {
    if (isIdle()) makeAll()
    else setImmediate(look).unref()
  }
  const whenIdle = (call: () => void): void => {
    waiting.push(call)
    look()
  }
  return { whenIdle, look, makeAll }
}
