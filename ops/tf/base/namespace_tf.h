// SPDX-License-Identifier: Apache-2.0
// The short name of TensorFlow's namespace, for all files of ops/tf.
#pragma once

namespace tensorflow {}

namespace sok {

namespace tf = tensorflow;

}  // namespace sok
