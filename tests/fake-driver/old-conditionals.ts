/** The conditional nodes that drivers before CUDA 12.8 do not have, with FAKE_VERSION, and those that they have. */
import { Device, Stream } from 'cuda-streams'

const stream = new Stream({ device: Device.get() })
const body = (): void => {}
const ways: Readonly<Record<string, (condition: ReturnType<Stream['createCondition']>) => void>> = {
  if: (condition) => stream.if(condition, body),
  while: (condition) => stream.while(condition, body),
  'if with another body': (condition) => stream.if(condition, body, body),
  switch: (condition) => stream.switch(condition, [body]),
}
for (const [name, add] of Object.entries(ways)) {
  try {
    const { nodeCount } = stream.capture(() => add(stream.createCondition()))
    console.log(`${name}: ${nodeCount}`)
  } catch (error) {
    console.log(`${name}: ${(error as Error).message}`)
  }
}
